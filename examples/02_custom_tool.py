"""A tool of your own: a plain function with type hints and a docstring becomes something agents can call.

A function plays the model here. Put `Team("weather", tools=[temperature])` with a key in the environment to let a real
one call it.
"""

import anyio

from pseudoclaude import FunctionProvider, Team, ToolContext, ToolError, tool
from pseudoclaude.chat import ModelRequest, ToolCall, ToolResult

READINGS = {"Oslo": -4.5, "Lisbon": 17.0}


@tool(read_only=True)
def temperature(ctx: ToolContext, city: str, fahrenheit: bool = False) -> str:
    """Tell the temperature in a city.

    Args:
        city: The city's name.
        fahrenheit: Answer in degrees Fahrenheit instead of Celsius.
    """
    if city not in READINGS:
        raise ToolError(f"no reading for {city}; there is one for: {', '.join(READINGS)}")
    celsius = READINGS[city]
    return f"{celsius * 9 / 5 + 32:.1f} °F" if fahrenheit else f"{celsius:.1f} °C"


def answer(request: ModelRequest) -> str | ToolCall:
    """What a model might do: call the tool, then say what it said."""
    last = request.messages[-1].content[0]
    if isinstance(last, ToolResult):
        return f"In Oslo it is {last.text}."
    return ToolCall(id="toolu_1", name="temperature", input={"city": "Oslo"})


async def main() -> None:
    async with Team("weather", tools=[temperature], provider=FunctionProvider(answer)) as team:
        print((await team.run("How cold is it in Oslo?")).text)


if __name__ == "__main__":
    anyio.run(main)
