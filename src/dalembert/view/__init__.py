"""Seeing a motion: browser viewer, self-contained HTML pages, films and figures."""
