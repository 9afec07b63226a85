"""Three sites of NVIDIA FLARE tune the prompt of examples/prompt.py, each with its own texts and its own model.

    python run.py       in FLARE's simulator, one process per site's model, in the folder simulation/

On real machines everything except this file is the same: `fzoos scaffold flare` makes the kits; see docs/engines.md.
"""

import os
from pathlib import Path

from nvflare.recipe import SimEnv

from fzoos.engines.flare import run
from fzoos.federation.study import Study
from fzoos_experiments.tasks.cache import write_archive
from fzoos_experiments.tasks.prompt import Prompt, Texts, load_texts, split_texts

HERE = Path(__file__).parent


def give_out_texts(study: Study, test: Prompt) -> None:
    """Write each site's own texts: skewed, and without the test texts."""
    texts = load_texts().only(test.classes)
    shares, _ = split_texts(texts.label, len(study.sites), 4, test.heterogeneity, test.test, test.seed)
    for site, mine in zip(study.sites, shares, strict=True):
        own = Texts(texts.text[mine], texts.label[mine], texts.classes)
        write_archive(HERE / "site" / "texts" / site / "debian.npz", own._asdict())


if __name__ == "__main__":
    study = Study.load(HERE / "study.toml")
    test = Prompt(dim=study.dim, test=30)  # for the accuracy only: the study's author has texts of the same kind
    give_out_texts(study, test)
    os.environ["FZOOS_SITE"] = str((HERE / "site" / "site.toml").resolve())
    result = run(study, SimEnv(clients=list(study.sites), workspace_root="simulation"), results="simulation")
    print(f"{result.status}: {result.rounds} rounds, {result.queries} queries, {result.bytes_up} bytes up")
    print(f"{test.accuracy(test.x0):.0%} of the test texts right before, {test.accuracy(result.x):.0%} after")
