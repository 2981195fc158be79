"""The store from outside: what lies in it, what uses it, and what may be removed (docs/design/store.md)."""
