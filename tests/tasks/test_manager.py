"""What the person, tools and other processes ask of runs: launch, resume, stop, nudge, spawn, look."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from pseudoclaude import open_team, tool
from pseudoclaude.chat import ModelRequest
from pseudoclaude.errors import MemberExistsError, ProviderError, TeamError, TooManyMembersError, UnknownMemberError
from pseudoclaude.events import Event, RunStarted, StateChanged
from pseudoclaude.ids import RUNTIME, USER, AgentId, MessageId
from pseudoclaude.mail import ControlAction, ControlRequest, ControlResponse, Message, MessageType
from pseudoclaude.mailbox.native import NativeStore
from pseudoclaude.storage.files import FileStorage
from pseudoclaude.testing import call
from tests.tasks.stage import Model, answers, join, mail_of, notices, quick, settled, team_of, text_of, times

BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


async def hang(request: ModelRequest) -> str:
    """A model that never answers."""
    await anyio.sleep_forever()
    return "never"


@BOTH
async def test_a_goal_is_answered_by_the_lead_and_its_members(tmp_path: Path) -> None:
    model = Model(
        lead=answers([call("Agent", name="alice", prompt="look")], "waiting", "alice says: found"),
        alice=answers([call("SendMessage", to="lead", summary="found", content="found")], "sent"),
    )
    async with team_of(model, tmp_path) as team:
        result = await team.run("find it")
        assert result.ok
        assert result.text == "alice says: found"
        assert not result.unfinished
    assert not model.violations


@BOTH
async def test_a_stopped_run_ends_and_unread_mail_does_not_start_it_again(tmp_path: Path) -> None:
    model = Model(alice=lambda request: hang(request) if len(model.of("alice")) == 1 else "back")
    async with team_of(model, tmp_path) as team:
        alice = await join(team, "alice")
        await model.until_asked("alice", 1)
        await team.send("alice", summary="old", content="old-news")
        with anyio.fail_after(5):
            assert "in the middle of a step" in await team.manager.stop(alice.agent_id, reason="enough")
        await settled(team)
        assert len(model.of("alice")) == 1
        assert team.manager.halted() == {"alice": "its run was ended: enough"}
        assert notices(await mail_of(team, team.record.lead.agent_id)) == [("interrupted", "enough")]
        await team.send("alice", summary="new", content="new-news")
        await settled(team)
        assert [times(text, model.of("alice")[-1]) for text in ("old-news", "new-news")] == [1, 1]
    assert not model.violations


async def test_a_stop_between_two_steps_needs_no_cancellation(tmp_path: Path) -> None:
    reached, go_on = anyio.Event(), anyio.Event()

    async def work(request: ModelRequest) -> list[object]:
        reached.set()
        await go_on.wait()
        return [call("TaskList")]

    model = Model(alice=work)  # type: ignore[arg-type]
    async with team_of(model, tmp_path, chosen=quick(stop_grace=5)) as team:
        alice = await join(team, "alice")
        with anyio.fail_after(5):
            await reached.wait()
            async with anyio.create_task_group() as group:
                group.start_soon(team.manager.stop, alice.agent_id)
                await anyio.wait_all_tasks_blocked()
                go_on.set()
        await settled(team)
    assert len(model.of("alice")) == 1
    assert team.manager.runs()[0].status == "interrupted"


async def test_a_run_can_be_stopped_while_it_is_starting(tmp_path: Path) -> None:
    model = Model(alice=hang)
    async with team_of(model, tmp_path) as team:
        alice = await join(team, "alice")
        with anyio.fail_after(5):
            await team.manager.stop(alice.agent_id)
        assert team.manager.runs()[0].status == "interrupted"
        await settled(team)


async def test_a_member_that_hangs_in_a_tool_is_stopped_and_its_calls_are_answered(tmp_path: Path) -> None:
    at_work = anyio.Event()

    @tool(name="Work")
    async def work(what: str) -> str:
        """Work.

        Args:
            what: What on.
        """
        if what == "second":
            at_work.set()
            await anyio.sleep_forever()
        return f"{what} is done"

    calls = [call("Work", what=what) for what in ("first", "second", "third")]
    model = Model(alice=answers(calls))
    async with team_of(model, tmp_path, tools=[work]) as team:
        alice = await join(team, "alice")
        with anyio.fail_after(5):
            await at_work.wait()
            await team.manager.stop(alice.agent_id)
        await team.manager.say(alice.agent_id, "go on")
        await settled(team)
    answer = model.of("alice")[-1].messages[-1]
    assert [block.type for block in answer.content] == ["tool_result"] * 3 + ["text"]
    results = [str(getattr(block, "content", "")) for block in answer.content]
    assert results[0] == "first is done"
    assert results[1].startswith("interrupted")
    assert results[2].startswith("not run")
    assert not model.violations


async def test_stopping_everybody_stops_everybody(tmp_path: Path) -> None:
    model = Model(alice=hang, bob=hang)
    async with team_of(model, tmp_path) as team:
        for name in ("alice", "bob"):
            await join(team, name)
        with anyio.fail_after(5):
            await team.manager.stop_all(reason="enough")
        await settled(team)
        assert set(team.manager.halted()) == {"alice", "bob"}
        assert await team.manager.stop_all() == "nobody is running"


async def test_what_is_said_while_a_run_is_stopped_does_not_restart_it_but_is_kept(tmp_path: Path) -> None:
    model = Model(alice=lambda request: hang(request) if len(model.of("alice")) == 1 else "back")
    async with team_of(model, tmp_path) as team:
        alice = await join(team, "alice")
        await model.until_asked("alice", 1)
        await team.manager.say(alice.agent_id, "said-before")
        with anyio.fail_after(5):
            await team.manager.stop(alice.agent_id)
        await settled(team)
        assert len(model.of("alice")) == 1
        await team.manager.say(alice.agent_id, "said-after")
        await settled(team)
    assert [times(text, model.of("alice")[-1]) for text in ("said-before", "said-after")] == [1, 1]


@BOTH
async def test_a_nudge_starts_an_idle_member_without_mail(tmp_path: Path) -> None:
    model = Model()
    async with team_of(model, tmp_path) as team:
        alice = await join(team, "alice")
        await settled(team)
        assert "was nudged" in await team.manager.nudge(alice.agent_id)
        assert "at work already" in await team.manager.nudge(alice.agent_id)
        await settled(team)
        assert len(model.of("alice")) == 2
        assert "woken without new mail" in model.of("alice")[-1].messages[-1].text


async def test_a_team_takes_no_more_members_than_its_limit_and_no_name_twice(tmp_path: Path) -> None:
    async with team_of(Model(), tmp_path, chosen=quick(members=2)) as team:
        await join(team, "alice")
        with pytest.raises(MemberExistsError):
            await join(team, "Alice")
        await join(team, "bob")
        with pytest.raises(TooManyMembersError):
            await join(team, "carol")
        await settled(team)
        assert [member.name for member in team.record.members] == ["alice", "bob"]


async def test_a_repeated_spawn_finds_the_member_it_made(tmp_path: Path) -> None:
    async with team_of(Model(), tmp_path) as team:
        wanted = {"name": "alice", "prompt": "begin", "description": "", "model": "", "tools": None}
        by = MessageId.new()
        first = await team.manager.spawn(**wanted, spawned_by=by)  # type: ignore[arg-type]
        second = await team.manager.spawn(**wanted, spawned_by=by)  # type: ignore[arg-type]
        await settled(team)
        assert first == second
        assert [run.agent for run in team.manager.runs()] == ["alice", "lead"]


async def test_a_run_can_be_waited_for_by_its_id(tmp_path: Path) -> None:
    async with team_of(Model(), tmp_path) as team:
        alice = await join(team, "alice")
        with anyio.fail_after(5):
            info = await team.manager.wait(f"{alice.agent_id}.1")
        assert (info.status, info.text) == ("finished", "ok")
        assert team.manager.get(info.run_id) is info
        with pytest.raises(TeamError, match="no run 'x'"):
            await team.manager.wait("x")
        with pytest.raises(UnknownMemberError):
            team.manager.launch(AgentId("nobody"))


async def test_a_launch_joins_the_run_under_way(tmp_path: Path) -> None:
    async with team_of(Model(), tmp_path) as team:
        alice = await join(team, "alice")
        assert team.manager.launch(alice.agent_id) is team.manager.runs()[0]
        await settled(team)


async def test_a_failed_member_is_resumed_on_demand(tmp_path: Path) -> None:
    model = Model(alice=answers(ProviderError("refused", passing=False), "better"))
    async with team_of(model, tmp_path) as team:
        alice = await join(team, "alice")
        await settled(team)
        woken = await team.manager.resume(alice.agent_id)
        assert woken.run_id == f"{alice.agent_id}.2"
        await settled(team)
        assert team.manager.last_text(alice.agent_id) == "better"
    assert model.of("alice")[0].messages == model.of("alice")[1].messages


async def test_used_up_turns_end_a_run_and_the_lead_is_told(tmp_path: Path) -> None:
    model = Model(alice=lambda _: [call("TaskList")])
    async with team_of(model, tmp_path, max_turns=2) as team:
        await join(team, "alice")
        await settled(team)
        assert len(model.of("alice")) == 2
        ((status, error),) = notices(await mail_of(team, team.record.lead.agent_id))
        assert status == "limit"
        assert "turns are used up" in error


async def test_an_idle_notice_that_a_dead_process_owed_is_sent_once_at_the_next_start(tmp_path: Path) -> None:
    model = Model(alice=answers("the result"))
    async with team_of(model, tmp_path) as team:
        lead = team.record.lead.agent_id
        await join(team, "alice")
        await settled(team)
        inbox = team.folder / "inboxes" / lead
        assert len(notices(await mail_of(team, lead))) == 1
    for path in inbox.iterdir():  # as if the process had died before the notice
        path.write_bytes(b"")
    for _ in range(2):
        async with team_of(model, tmp_path) as team:
            await settled(team)
            assert notices(await mail_of(team, lead)) == [("finished", "")]


async def test_a_transcript_that_cannot_be_read_stops_its_agent_and_no_other(tmp_path: Path) -> None:
    model = Model()
    async with team_of(model, tmp_path) as team:
        alice = await join(team, "alice")
        await join(team, "bob")
        await settled(team)
        transcript = team.folder / "sessions" / f"{alice.agent_id}.jsonl"
    with transcript.open("a") as file:
        file.write('{"i":3,"kind":"poem"}\n')
    async with team_of(model, tmp_path) as team:
        assert "cannot be read" in team.manager.halted()["alice"]
        await team.send("bob", summary="news", content="bob-news")
        await team.send("alice", summary="news", content="alice-news")
        await settled(team)
        assert times("bob-news", model.of("bob")[-1]) == 1
        assert "no part of a conversation" in team.manager.halted()["alice"]
        assert ("failed", team.manager.halted()["alice"].removeprefix("it failed: ")) in notices(
            await mail_of(team, team.record.lead.agent_id)
        )


async def test_commands_of_another_process_are_carried_out_and_answered(tmp_path: Path) -> None:
    model = Model(alice=hang)
    async with team_of(model, tmp_path) as team:
        alice = await join(team, "alice")
        await model.until_asked("alice", 1)
        client = await open_team("survey", root=tmp_path / "home")
        with anyio.fail_after(10):
            answer = await client.control(ControlAction.STOP, alice.agent_id, reason="from outside")
        assert answer.ok
        assert team.manager.halted() == {"alice": "its run was ended: from outside"}


async def test_a_command_to_a_process_that_has_ended_is_refused_by_the_next(tmp_path: Path) -> None:
    model = Model()
    async with team_of(model, tmp_path) as team:
        store = NativeStore(FileStorage(team.folder, durability="os"))
    request = ControlRequest(request_id="r1", action=ControlAction.STOP)
    payload = request.model_dump(mode="json")
    kind = MessageType.CONTROL_REQUEST
    await store.write(RUNTIME, Message(sender=USER, recipient=RUNTIME, type=kind, summary="stop", payload=payload))
    async with team_of(model, tmp_path) as team:
        result = await team.run("go")
        assert result.ok
        answered = [item.message.parsed_payload() for item in await mail_of(team, USER)]
    assert [isinstance(answer, ControlResponse) and answer.ok for answer in answered] == [False]


async def test_text_that_cannot_be_written_is_mended_and_answered(tmp_path: Path) -> None:
    model = Model()
    async with team_of(model, tmp_path) as team:
        with anyio.fail_after(10):
            result = await team.run("half a pair: \ud83d")
        assert result.ok
    assert text_of(model.of("lead")[0]) == "half a pair: \ufffd"


async def test_states_of_an_earlier_process_are_forgotten(tmp_path: Path) -> None:
    states: list[tuple[str, str]] = []

    def listen(event: Event) -> None:
        if isinstance(event, StateChanged | RunStarted):
            states.append((event.agent, getattr(event, "state", "run")))

    model = Model(alice=hang)
    async with team_of(model, tmp_path) as team:
        await join(team, "alice")
        await model.until_asked("alice", 1)
    model.parts["alice"] = lambda _: "done"
    async with team_of(model, tmp_path, listeners=[listen]) as team:
        await settled(team)
        client = await open_team("survey", root=tmp_path / "home")
        assert [(view.name, view.state) for view in await client.agents()] == [("lead", "idle"), ("alice", "idle")]
    assert states[:2] == [("lead", "idle"), ("alice", "idle")]
    assert model.of("alice")[0].messages == model.of("alice")[1].messages
