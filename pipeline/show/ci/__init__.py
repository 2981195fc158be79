"""Results as continuous integration shows them: JUnit XML and SARIF (docs/ci.md)."""
