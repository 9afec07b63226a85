"""Two prototypes of an algorithm without settings, and the problems they were measured on."""
