"""What can be imported from here; `load_on_use` reads it, too."""

from fzoos.engines.local import LocalEngine as LocalEngine
from fzoos.engines.local_study import LocalStudy as LocalStudy
