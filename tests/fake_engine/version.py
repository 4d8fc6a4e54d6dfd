"""The build that the fake server says it is."""

BUILD = "b1-fa4e0000"
