module gobox

go 1.21
