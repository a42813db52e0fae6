"""Events: what must arrive arrives, in order, and nobody waits for a listener."""

from __future__ import annotations

import anyio
import pytest
from anyio import to_thread
from structlog.testing import capture_logs

from pseudoclaude.events import Event, EventBus, RunStarted, TextProgress, ToolProgress, Warned


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def progress(text: str = "x") -> TextProgress:
    return TextProgress(text=text)


async def rest_of(stream: anyio.abc.ObjectReceiveStream[Event]) -> list[Event]:
    with anyio.fail_after(5):
        async with stream:
            return [event async for event in stream]


async def test_every_listener_gets_every_event_in_order_and_then_the_end() -> None:
    bus = EventBus()
    first, second = bus.subscribe(), bus.subscribe()
    for number in range(50):
        bus.publish(Warned(text=str(number)))
    bus.close()
    for stream in (first, second):
        events = await rest_of(stream)
        assert [event.seq for event in events] == list(range(1, 51))
        assert [event.text for event in events if isinstance(event, Warned)] == [str(n) for n in range(50)]


async def test_a_slow_listener_loses_progress_and_nothing_else() -> None:
    bus = EventBus(progress_limit=3)
    slow = bus.subscribe()
    for number in range(10):
        bus.publish(progress())
        bus.publish(Warned(text=str(number)))
    bus.publish(ToolProgress(tool="Bash", text="late"))
    bus.close()
    events = await rest_of(slow)
    assert [event.text for event in events if isinstance(event, Warned)] == [str(n) for n in range(10)]
    assert sum(isinstance(event, TextProgress) for event in events) == 2
    assert not any(isinstance(event, ToolProgress) for event in events)
    seqs = [event.seq for event in events]
    assert seqs == sorted(seqs)
    assert seqs[-1] == 20
    assert len(seqs) < 20, "the gap shows that something was dropped"


async def test_progress_is_dropped_for_the_slow_one_only() -> None:
    bus = EventBus(progress_limit=1)
    slow, quick = bus.subscribe(), bus.subscribe()
    for _ in range(5):
        bus.publish(progress())
        assert quick.receive_nowait().droppable
    bus.close()
    assert len(await rest_of(slow)) == 1
    quick.close()


async def test_a_listener_that_has_left_hinders_nobody() -> None:
    bus = EventBus()
    gone, here = bus.subscribe(), bus.subscribe()
    gone.close()
    bus.publish(Warned(text="a"))
    bus.publish(Warned(text="b"))
    bus.close()
    assert len(await rest_of(here)) == 2


async def test_a_stream_opened_after_the_end_ends_at_once() -> None:
    bus = EventBus()
    bus.close()
    assert await rest_of(bus.subscribe()) == []
    bus.publish(Warned(text="nobody hears this"))


async def test_a_tap_that_fails_is_logged_and_stops_nothing() -> None:
    bus = EventBus()
    seen: list[int] = []

    def broken(event: Event) -> None:
        raise RuntimeError("broken tap")

    bus.tap(broken)
    bus.tap(lambda event: seen.append(event.seq))
    stream = bus.subscribe()
    with capture_logs() as logs:
        bus.publish(Warned(text="a"))
    bus.close()
    assert seen == [1]
    assert len(await rest_of(stream)) == 1
    assert [log["log_level"] for log in logs] == ["error"]


async def test_an_event_can_be_published_as_somebodys() -> None:
    bus = EventBus()
    stream = bus.subscribe()
    original = RunStarted(run_id="r1", why="mail")
    bus.publish_for("alice", "alice-1", original)
    bus.close()
    (event,) = await rest_of(stream)
    assert (event.agent, event.agent_id, event.seq) == ("alice", "alice-1", 1)
    assert (original.agent, original.seq) == ("", 0)
    assert event.at == original.at
    assert event.at.tzinfo is not None


async def test_a_worker_thread_may_publish_while_somebody_waits() -> None:
    bus = EventBus()
    stream = bus.subscribe()
    received: list[Event] = []

    async def listen() -> None:
        async with stream:
            async for event in stream:
                received.append(event)

    def work() -> None:
        for number in range(20):
            bus.publish(progress(str(number)))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            await anyio.wait_all_tasks_blocked()
            await to_thread.run_sync(work)
            bus.close()
    assert [event.seq for event in received] == list(range(1, 21))


async def test_a_thread_that_belongs_to_no_loop_cannot_break_anything() -> None:
    bus = EventBus()
    stream = bus.subscribe()

    def work() -> None:
        import threading

        thread = threading.Thread(target=bus.publish, args=(progress(),))
        thread.start()
        thread.join(5)

    await to_thread.run_sync(work)
    bus.close()
    assert await rest_of(stream) == []
