"""The report of a study: one HTML page that needs no network, the same as Markdown, and its pictures as PNG."""
