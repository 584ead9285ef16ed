"""Each file holds one algorithm; the table in :mod:`..solving` lists them and says what each can do."""
