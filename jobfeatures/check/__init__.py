"""Judging directories of features, whoever provides them: reading apart from rules."""
