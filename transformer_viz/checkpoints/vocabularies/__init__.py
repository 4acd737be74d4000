"""Vocabularies as trainers leave them: files of words, which side each is of, and tables of
embeddings."""
