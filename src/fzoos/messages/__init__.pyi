"""What can be imported from here; `load_on_use` reads it, too."""

from fzoos.messages.message import Arrays as Arrays
from fzoos.messages.message import Kind as Kind
from fzoos.messages.message import Message as Message
