"""Set-up of all tests."""

import hypothesis

hypothesis.settings.register_profile("busy machines", deadline=None)
hypothesis.settings.load_profile("busy machines")
