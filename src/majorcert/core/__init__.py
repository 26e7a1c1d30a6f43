"""The trusted core: all that a certificate from votes rests on, in exact integers."""
