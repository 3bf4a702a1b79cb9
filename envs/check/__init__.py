"""A conformance check for any server of the Open Reward Standard, in any language. Nothing is imported here: the
pytest plugin in this package is loaded by every run of pytest.
"""
