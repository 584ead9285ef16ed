"""One file an algorithm; the table in :mod:`..solving` lists them and says what each can do."""
