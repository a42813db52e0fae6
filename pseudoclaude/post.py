"""The one way mail is sent: resolve the recipients, check who may send what, stamp, store, wake."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, ValidationError

from .errors import InvalidMessageError, MailError, NotAllowedError, StorageError
from .ids import RUNTIME, USER, AgentId, MessageId
from .logs import Log
from .mail import RULES, Message, MessageType, Priority, Request, Response, Role, check_sendable, first_fault
from .mailbox.store import MailStore
from .teams.addressing import resolve
from .teams.registry import Roster

if TYPE_CHECKING:
    from .events import EventBus

LONGEST_SUMMARY = 300
"""Characters of a summary; of a longer one the beginning is kept, with an ellipsis."""

_THREAD_LOOKBACK = 2_000

_log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends, as the runtime knows it; nothing here comes from a model.

    ``message_id`` is the derived id of a tool call, None for a fresh one. ``repeated`` tells that the same call may
    have sent before: then nobody gets the message twice.
    """

    agent_id: AgentId
    role: Role
    hops: int = 0
    message_id: MessageId | None = None
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """What somebody wants to send. ``to`` is anything that addressing understands."""

    to: object
    summary: str = ""
    content: str = ""
    type: str = MessageType.TEXT
    payload: Mapping[str, Any] | None = None
    in_reply_to: str | None = None
    priority: Priority = Priority.NORMAL


@dataclass(frozen=True, slots=True)
class Wake:
    """Whether somebody runs because of this, or why not. ``run_id`` is empty when no run was started or goes on."""

    run_id: str = ""
    why: str = ""


class Waker(Protocol):
    """Whoever can start runs is told of every stored message that wakes."""

    async def wake(self, agent_id: AgentId) -> Wake:
        """Start a run if the agent owes a turn, is not running and can be woken."""
        ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of one copy: its index in the recipient's mailbox, or why it is not stored; and the wake-up."""

    agent_id: AgentId
    name: str
    index: int | None = None
    error: str = ""
    later: bool = False
    """Whether it will be stored without another send, since the broadcast that it belongs to is noted."""
    wake: Wake = field(default_factory=Wake)

    @property
    def stored(self) -> bool:
        """Whether it is in the mailbox."""
        return self.index is not None

    def explain(self) -> str:
        """One line for a model or a person."""
        if self.index is None:
            return f"{self.name}: {'stored as soon as that is possible' if self.later else 'NOT stored'}: {self.error}"
        state = f"woken, run {self.wake.run_id}" if self.wake.run_id else self.wake.why
        return f"{self.name}: stored as message {self.index}" + (f"; {state}" if state else "")


@dataclass(frozen=True, slots=True)
class SendResult:
    """What became of a message, recipient by recipient."""

    message_id: MessageId
    deliveries: tuple[Delivery, ...]

    @property
    def complete(self) -> bool:
        """Whether everybody has it."""
        return all(delivery.stored for delivery in self.deliveries)

    def explain(self) -> str:
        """Some lines for a model or a person."""
        lines = [delivery.explain() for delivery in self.deliveries]
        if any(not delivery.stored and not delivery.later for delivery in self.deliveries):
            lines.append("Send it again to those for whom it is NOT stored, and to nobody else.")
        return "\n".join([f"message {self.message_id}", *lines])


class Post:
    """Sends mail for everybody in one team.

    :param waker: who starts runs in this process; None where this process runs none.
    """

    def __init__(
        self,
        store: MailStore,
        registry: Roster,
        *,
        bus: EventBus | None = None,
        waker: Waker | None = None,
        max_content_bytes: int = 1 << 20,
    ) -> None:
        self._store = store
        self._registry = registry
        self._bus = bus
        self.waker = waker
        self._max_content = max_content_bytes

    async def send(self, sender: Sender, draft: Draft) -> SendResult:
        """Send a draft to everybody it names. Nothing is written unless all of it is in order.

        :raises UnknownRecipientError: when a recipient is nobody, or there is none.
        :raises NotAllowedError: when this sender may not send this.
        :raises InvalidMessageError: when the message itself will not do.
        """
        team = await self._registry.load()
        recipients = resolve(draft.to, team, sender=sender.agent_id).agents
        message_id = sender.message_id or MessageId.new()
        payload = _with_request_id(draft, message_id)
        kind = check_sendable(sender.role, draft.type or MessageType.TEXT, payload, draft.priority)
        summary = _one_line(draft.summary)
        if kind is MessageType.TEXT and not any(c.isprintable() and not c.isspace() for c in summary):
            raise InvalidMessageError("a text needs a summary", remedy="Say in one line what the message is about.")
        self._check_size("content", draft.content)
        reply_to = MessageId(draft.in_reply_to.strip()) if draft.in_reply_to and draft.in_reply_to.strip() else None
        message = _message(
            id=message_id,
            sender=sender.agent_id,
            recipient=recipients[0],
            type=kind,
            summary=summary,
            content=draft.content,
            payload=payload,
            in_reply_to=reply_to,
            priority=draft.priority,
            hops=sender.hops,
        )
        if message.payload is not None:
            self._check_size("payload", json.dumps(message.payload, ensure_ascii=False))
        if kind is MessageType.SHUTDOWN_RESPONSE:
            await self._check_was_asked(sender.agent_id, payload)
        if reply_to:
            thread = await self._thread((sender.agent_id, *recipients), reply_to)
            message = message.model_copy(update={"thread": thread})
        return await self._store_and_wake(recipients, message, repeated=sender.repeated)

    async def notify(
        self,
        *,
        recipient: AgentId,
        type: MessageType,
        id: MessageId,
        summary: str,
        content: str = "",
        payload: BaseModel | None = None,
        about: AgentId = RUNTIME,
        hops: int = 0,
        repeated: bool = False,
    ) -> Delivery:
        """Send a message that the runtime makes; ``about`` is the agent it comes from in the recipient's eyes.

        :raises InvalidMessageError: when the payload does not fit the type.
        """
        data = payload.model_dump(mode="json", exclude_none=True) if payload else None
        check_sendable(Role.RUNTIME, type, data)
        message = _message(
            id=id,
            sender=about,
            recipient=recipient,
            type=type,
            summary=_one_line(summary),
            content=content,
            payload=data,
            hops=hops,
        )
        result = await self._store_and_wake((recipient,), message, repeated=repeated)
        return result.deliveries[0]

    async def _store_and_wake(self, recipients: tuple[AgentId, ...], message: Message, *, repeated: bool) -> SendResult:
        since = 0 if repeated else None
        names = self._registry.team
        deliveries: list[Delivery] = []
        if len(recipients) == 1:
            stored, waiting, kept = {}, {}, frozenset[AgentId]()
            try:
                stored = {recipients[0]: await self._store.write(recipients[0], message, since=since)}
            except (MailError, StorageError) as error:
                waiting = {recipients[0]: error.explain()}
        else:
            result = await self._store.broadcast(recipients, message, since=since)
            stored, waiting, kept = dict(result.stored), dict(result.waiting), result.kept
        for agent in recipients:
            name = names.display_name(agent)
            if agent in stored:
                self._announce(message, name)
                deliveries.append(Delivery(agent, name, stored[agent], wake=await self._wake(agent, message)))
            else:
                deliveries.append(Delivery(agent, name, error=waiting.get(agent, "unknown"), later=agent in kept))
        return SendResult(message.id, tuple(deliveries))

    async def _wake(self, agent: AgentId, message: Message) -> Wake:
        """A message that is stored stays stored: what fails here is told beside it and tried again by the watch."""
        if agent == USER:
            return Wake(why="the person sees it")
        if not message.wakes:
            return Wake(why=f"a {message.type} is read with the next turn and starts none")
        if self.waker is None:
            return Wake()
        try:
            return await self.waker.wake(agent)
        except Exception as error:
            _log.exception("waking failed", agent_id=agent, message_id=message.id)
            return Wake(why=f"waking failed ({error}), and is tried again when its mail is next looked at")

    def _announce(self, message: Message, recipient: str) -> None:
        if self._bus is not None:
            from .events import MailSent  # without a bus nobody needs it

            team = self._registry.team
            self._bus.publish(
                MailSent(
                    agent=team.display_name(message.sender),
                    agent_id=message.sender,
                    message_id=message.id,
                    recipient=recipient,
                    type=message.type,
                    summary=message.summary,
                )
            )

    async def _thread(self, mailboxes: Iterable[AgentId], reply_to: MessageId) -> MessageId:
        """The thread of the message replied to: one the replier got, or had sent. Else that message begins one.

        A mailbox that cannot be looked into hinders no reply.
        """
        for agent in mailboxes:
            try:
                since = max(0, await self._store.end(agent) - _THREAD_LOOKBACK)
                index = await self._store.find(agent, reply_to, since=since)
                found = [] if index is None else await self._store.read(agent, start=index, limit=1)
            except (MailError, StorageError):
                continue
            if found and found[0].message.id == reply_to:
                return found[0].message.thread or reply_to
        return reply_to

    async def _check_was_asked(self, agent: AgentId, payload: Mapping[str, Any] | None) -> None:
        answer = Response.model_validate(payload)
        for item in await self._store.read(agent):
            request = item.message
            if request.type is MessageType.SHUTDOWN_REQUEST and (request.payload or {}).get("request_id") == (
                answer.request_id
            ):
                return
        raise NotAllowedError(
            f"nobody asked you to shut down with request_id {answer.request_id!r}",
            remedy="Answer with the request_id of the shutdown_request you got.",
        )

    def _check_size(self, what: str, text: str) -> None:
        if (size := len(text.encode("utf-8", "replace"))) > self._max_content:
            raise InvalidMessageError(
                f"the {what} has {size:,} bytes, and that of a message at most {self._max_content:,}",
                remedy="Write it to a file and send its path, or send it in parts.",
            )


def _one_line(summary: str) -> str:
    line = " ".join(summary.split())
    return line if len(line) <= LONGEST_SUMMARY else line[: LONGEST_SUMMARY - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _with_request_id(draft: Draft, message_id: MessageId) -> dict[str, Any] | None:
    """The payload; a request that names no id gets that of its message, which its sender is told."""
    payload = dict(draft.payload) if draft.payload is not None else None
    rule = RULES[MessageType(draft.type)] if draft.type in RULES else None
    if rule and rule.payload and issubclass(rule.payload, Request) and not (payload or {}).get("request_id"):
        return {**(payload or {}), "request_id": str(message_id)}
    return payload


def _message(**fields: Any) -> Message:
    try:
        return Message(**fields)
    except ValidationError as error:
        raise InvalidMessageError(f"this cannot be sent: {first_fault(error)}") from error
