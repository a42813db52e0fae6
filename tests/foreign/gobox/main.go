// A program that appends to the same boxes, with lock files of its own. Arguments: folder, mailbox, name, count.
// Prints "ready", waits for a line, then "stored NAME-N" or "refused NAME-N" for each message.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

type letter struct {
	From      string         `json:"from"`
	To        string         `json:"to"`
	Type      string         `json:"type"`
	Summary   string         `json:"summary"`
	Content   string         `json:"content,omitempty"`
	Payload   map[string]any `json:"payload,omitempty"`
	Timestamp time.Time      `json:"timestamp"`
	Read      bool           `json:"read"`
}

type box struct {
	Messages []letter `json:"messages"`
}

func take(path string) bool {
	for try := 0; try < 10; try++ {
		if try > 0 {
			time.Sleep(time.Duration(5+rand.Intn(96)) * time.Millisecond)
		}
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprint(file, time.Now().Format(time.RFC3339Nano))
			file.Close()
			return true
		}
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > 10*time.Second {
			os.Remove(path)
		}
	}
	return false
}

func add(path string, message letter) error {
	var held box
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &held)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	held.Messages = append(held.Messages, message)
	data, err = json.MarshalIndent(held, "", "  ")
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".tmp-*.json")
	if err != nil {
		return err
	}
	_, err = file.Write(append(data, '\n'))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

func main() {
	path := filepath.Join(os.Args[1], os.Args[2]+".json")
	name := os.Args[3]
	count, _ := strconv.Atoi(os.Args[4])
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	for n := 0; n < count; n++ {
		text := fmt.Sprintf("%s-%d", name, n)
		if !take(path + ".lock") {
			fmt.Println("refused", text)
			continue
		}
		err := add(path, letter{From: name, To: os.Args[2], Type: "text", Summary: text, Content: text, Timestamp: time.Now()})
		os.Remove(path + ".lock")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("stored", text)
	}
}
