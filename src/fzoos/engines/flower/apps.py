"""The two halves of a Flower app: `client_app` for a site, `server_app` for the server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, cast

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fzoos.engines.flower.engine import FlowerEngine
from fzoos.engines.flower.masks import use_strong_masks
from fzoos.engines.flower.secure import SecureFlowerEngine
from fzoos.engines.flower.secure_client import guard, masked_reply, request_of
from fzoos.engines.flower.wire import pack, unpack
from fzoos.federation.journal import JournalError
from fzoos.federation.site import StudySite
from fzoos.federation.study import Study
from fzoos.federation.study_run import run_study
from fzoos.messages import codec
from fzoos.result import Record

__all__ = ["client_app", "server_app"]

Factory = Callable[[Mapping[str, Any]], Any]
StudyLike = Study | str | PathLike[str]

_WAIT = 10.0  # seconds to wait for a journal that another process has open


def client_app(
    objective_factory: Factory,
    study: StudyLike | None = None,
    *,
    secure_aggregation: bool = False,
    bound: float = 100.0,
) -> ClientApp:
    """Return a site's half, which answers the server's requests with the site's own objective.

    Flower starts a new process per message. What must persist (queries, generator, replies) is in the journal; the
    client's state is stored beside it, so that the next process need not replay the journal.

    A node's config (`flower-supernode --node-config 'site="site-1" journal="site-1.journal"'`) has

    - site: the site's name in the study (in a simulation, the node's number stands for it);
    - journal: the path of its journal (in a simulation, the folder `journals` of the run's config holds all of them);
    - study: the path of its study.toml (default: `study` of the run's config);
    - prior: the path of a CSV file with points and values from before the study, if there are any;
    - max_epsilon: the privacy loss at which the site stops answering, in a private study;
    - site_seed: makes the site's queries repeatable; whoever knows it can compute the site's values from its replies,
      and without it the seed is secret (in a simulation: `site_seed` of the run's config);
    - and whatever the objective needs, such as its path.

    Args:
        objective_factory: called with the node's config, returns the objective.
        study: the study or the path of its study.toml; None: the path in the node's config.
        secure_aggregation: whether x and payload leave the site only in sums with those of other sites.
        bound: with secure aggregation, the largest absolute value in a payload, the same at all sites; a site with
            larger numbers sends nothing and reports it. The average of three sites is off by 2e-9 bound.

    Example:
        >>> import numpy as np
        >>> from fzoos.engines.flower import client_app
        >>> app = client_app(lambda config: lambda x: float(np.sum((x - config["target"]) ** 2)))
    """
    app = ClientApp()

    @app.query()
    def answer(message: Message, context: Context) -> Message:
        if secure_aggregation:
            raise PermissionError("this site takes part in secure aggregation only")
        ours = _study(study, context)
        data, addressee = unpack(message.content)
        site, reply = _answer(data, addressee, context, ours, objective_factory)
        return Message(pack(reply, site), reply_to=message)

    if secure_aggregation:
        use_strong_masks()

        @app.train(mods=[guard(lambda context: _study(study, context)), secaggplus_mod])
        def train(message: Message, context: Context) -> Message:
            ours = _study(study, context)
            data, addressee = request_of(message)
            site, reply = _answer(data, addressee, context, ours, objective_factory)
            return masked_reply(message, codec.decode(reply, ours.id), ours, ours.sites.index(site), bound)

    @app.query("site")
    def name(message: Message, context: Context) -> Message:
        site = _site(_study(study, context), context)
        return Message(RecordDict({"site": ConfigRecord({"name": site})}), reply_to=message)

    return app


def server_app(study: StudyLike | None = None, *, secure_aggregation: bool = False) -> ServerApp:
    """Return the server's half, which runs the study and stores its result in a file.

    The run's config (`flwr run . --run-config 'result="result.db" resume=true'`) has

    - result: the path of the result, which contains the checkpoints as well (default: "result.db");
    - resume: whether to resume from its last checkpoint (default: false);
    - study: the path of the study.toml, if it is not given here.

    Args:
        study: the study or the path of its study.toml; None: the path in the run's config.
        secure_aggregation: whether only sums of x and payload are received; it must be set at the sites as well.

    Example:
        >>> from fzoos.engines.flower import server_app
        >>> app = server_app("study.toml")
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        ours, config = _study(study, context), context.run_config
        engine = SecureFlowerEngine(grid, ours) if secure_aggregation else FlowerEngine(grid, ours)
        path, resume = Path(str(config.get("result", "result.db"))), bool(config.get("resume", False))
        result = run_study(ours, engine, path, resume=resume, callback=_show)
        print(f"{result.message}; the result is in {path}", flush=True)
        if result.status == "failed":
            raise RuntimeError(result.message)  # so that Flower reports the run as failed

    return app


def _show(record: Record) -> None:
    """Print one line per round, for `flwr run --stream` and `flwr log`, which would not show a progress bar."""
    print(f"round {record.round}: {record.queries} queries, step {record.step:.3g}, {record.seconds:.0f} s", flush=True)


def _answer(data: bytes, addressee: str, context: Context, study: Study, factory: Factory) -> tuple[str, bytes]:
    """Return this site and its reply; the reason for a missing reply omits the objective's own message."""
    name = _site(study, context)
    try:
        if addressee != name:
            return name, codec.encode_failure(f"this is {name!r}, the request is for {addressee!r}", study.id)
        objective = factory(context.node_config)
        # A process of this site that was just killed may still have the journal open.
        site = StudySite(
            study,
            study.sites.index(name),
            objective,
            _journal(name, context),
            max_epsilon=cast(float | None, context.node_config.get("max_epsilon")),
            prior=context.node_config.get("prior"),
            wait=_WAIT,
            site_seed=_site_seed(context),
            snapshots=True,
        )
    except JournalError as error:
        return name, codec.encode_failure(str(error), study.id)
    except Exception as error:
        logging.getLogger("fzoos").exception("%s cannot answer", name)
        return name, codec.encode_failure(f"{name} cannot answer: {type(error).__name__} (its log says more)", study.id)
    try:
        return name, site.answer(data)
    finally:
        site.close()


def _study(given: StudyLike | None, context: Context) -> Study:
    if isinstance(given, Study):
        return given
    path = given or context.node_config.get("study") or context.run_config.get("study")
    if path is None:
        raise ValueError('no study: give client_app and server_app one, or set study="path/of/study.toml" in a config')
    return Study.load(str(path))


def _site(study: Study, context: Context) -> str:
    config = context.node_config
    if "site" in config:
        site = str(config["site"])
    elif "partition-id" in config:  # Flower's simulation numbers its nodes
        site = study.sites[int(config["partition-id"])]
    else:
        raise ValueError("no site: start the node with --node-config 'site=\"...\"'")
    if site not in study.sites:
        raise ValueError(f"site is {site!r}, the study has {', '.join(study.sites)}")
    return site


def _site_seed(context: Context) -> int | None:
    """Return the seed; the run's config may set it only if all sites are simulated on one machine."""
    config = context.run_config if "partition-id" in context.node_config else context.node_config
    return cast(int | None, context.node_config.get("site_seed", config.get("site_seed")))


def _journal(site: str, context: Context) -> Path:
    if "journal" in context.node_config:
        return Path(str(context.node_config["journal"]))
    if "partition-id" in context.node_config and "journals" in context.run_config:
        return Path(str(context.run_config["journals"])) / f"{site}.journal"
    raise ValueError(f"no journal: start the node of {site} with --node-config 'journal=\"path\"'")
