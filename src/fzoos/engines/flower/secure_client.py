"""A site's side of secure aggregation: its vector is sent masked, or not at all.

Flower's `secaggplus_mod` masks the replies of a `ClientApp` to messages of type "train", and of exactly that type: the
same function would reply in clear to "train.default". So the function itself refuses every other type, and a guard
before the mod refuses parameters of the protocol that would reveal more to the server than a sum over enough sites.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from flwr.app import Context, Message
from flwr.app.message_type import MessageType
from flwr.clientapp.typing import ClientAppCallable, Mod
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.compat.common import recorddict_compat

from fzoos.engines.flower.vectors import CUBE, MODULUS, WEIGHT, Layout, levels
from fzoos.federation.study import Study
from fzoos.messages import codec
from fzoos.messages.message import Message as Reply

__all__ = ["enough_for_a_sum", "guard", "masked_reply", "request_of"]


def guard(study: Callable[[Context], Study]) -> Mod:
    """Return a Flower mod that refuses to take part in anything but a sum over enough sites."""

    def check(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        if message.metadata.message_type != MessageType.TRAIN:
            raise PermissionError(f"secure aggregation answers 'train', not {message.metadata.message_type!r}")
        config = message.content.config_records[RECORD_KEY_CONFIGS]
        problem = _problem(cast(dict[str, Any], config), enough_for_a_sum(study(context)))
        if problem:
            raise PermissionError(f"secure aggregation: {problem}")
        return call_next(message, context)

    return check


def enough_for_a_sum(study: Study) -> int:
    """Return the least number of sites in a sum."""
    return max(2, study.participants if study.min_clients is None else study.min_clients)


def _problem(config: dict[str, Any], enough: int) -> str | None:
    """Return what is wrong with a message of the protocol, if anything; Flower's mod checks types."""
    stage = config.get(Key.STAGE)
    if stage == Stage.SETUP:
        n, threshold = config[Key.SAMPLE_NUMBER], config[Key.THRESHOLD]
        if n < enough or config[Key.SHARE_NUMBER] != n:
            return f"{n} sites with {config[Key.SHARE_NUMBER]} shares, expected at least {enough} with a share each"
        if not max(enough, n / 2 + 0.5) <= threshold <= n:
            return f"threshold {threshold} of {n} shares, expected more than half and at least {enough}"
        expected = {
            Key.CLIPPING_RANGE: 1.0,
            Key.TARGET_RANGE: levels(n),
            Key.MOD_RANGE: MODULUS,
            Key.MAX_WEIGHT: float(WEIGHT),
        }
        wrong = [key for key, value in expected.items() if config.get(key) != value]
        return f"another quantisation: {', '.join(wrong)}" if wrong else None
    if stage == Stage.SHARE_KEYS and len(config) - 1 < enough:
        return f"keys of {len(config) - 1} sites, expected at least {enough}"
    if stage == Stage.COLLECT_MASKED_VECTORS and len(set(config[Key.SOURCE_LIST])) + 1 < enough:
        return f"a sum over {len(set(config[Key.SOURCE_LIST])) + 1} sites, expected at least {enough}"
    if stage == Stage.UNMASK:
        active, dead = set(config[Key.ACTIVE_NODE_ID_LIST]), set(config[Key.DEAD_NODE_ID_LIST])
        if len(active) < enough or active & dead:
            return f"unmasking {len(active)} sites, of which {len(active & dead)} are also declared lost"
    return None


def request_of(message: Message) -> tuple[bytes, str]:
    """Return the request's bytes and its addressee, from a message of the stage in which vectors are collected."""
    ins = recorddict_compat.recorddict_to_fitins(message.content, keep_input=True)
    return ins.parameters.tensors[0], str(ins.config["site"])


def masked_reply(message: Message, reply: Reply, study: Study, client: int, bound: float) -> Message:
    """Return a reply for Flower's mod to mask: one vector, and beside it in clear what a sum cannot carry.

    In clear are the kind, the round, the scalars (counts and diagnostics) and the layout of the vector. `bound` is R,
    the bound of the payload's numbers.
    """
    if message.metadata.message_type != MessageType.TRAIN:  # checked again, since here it would be a leak
        raise PermissionError(f"secure aggregation answers 'train', not {message.metadata.message_type!r}")
    privacy = study.privacy_settings
    layout = Layout.of(reply.arrays, bound, CUBE if privacy is None else max(CUBE, privacy.reach))
    result = FitRes(
        status=Status(Code.OK, ""),
        parameters=ndarrays_to_parameters([layout.join(reply.arrays)]),
        num_examples=round(WEIGHT * study.omega[client] / study.omega.max()),
        metrics={
            "reply": codec.encode(Reply(reply.kind, reply.round, {}, reply.scalars), study.id),
            "layout": layout.text(),
        },
    )
    return Message(recorddict_compat.fitres_to_recorddict(result, keep_input=False), reply_to=message)
