"""Vocabularies as trainers store them: word lists, their sides, and embedding tables."""
