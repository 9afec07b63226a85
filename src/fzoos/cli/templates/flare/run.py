"""Runs the study, or what is left of it, and leaves its result here.

python run.py               on the deployment whose startup kits are in kits/
python run.py --simulate    in FLARE's simulator on this machine, in the folder simulation/
"""

import os
import sys

from nvflare.recipe import ProdEnv, SimEnv

from fzoos.engines.flare import run
from fzoos.federation.study import Study

LEAD = "lead@example.com"

study = Study.load("study.toml")
if "--simulate" in sys.argv:
    os.environ["FZOOS_SITE"] = os.path.abspath("site/site.toml")
    env, results = SimEnv(clients=list(study.sites), workspace_root="simulation"), "simulation"
else:
    env, results = ProdEnv("kits/{{name}}/prod_00/" + LEAD, username=LEAD), "."
result = run(study, env, results=results)
print(f"{result.status}: x = {result.x}, {result.queries} queries")
