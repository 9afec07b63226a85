"""What can be imported from here; `load_on_use` reads it, too."""

from fzoos.federation.site import StudySite as StudySite
from fzoos.federation.study import Study as Study
from fzoos.federation.study_run import run_study as run_study
