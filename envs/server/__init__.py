"""What every environment container runs round the SDK's server: access, limits, health, metrics, a page."""

from envs.server.run import serve
from envs.server.settings import Settings, SettingsError

__all__ = ["Settings", "SettingsError", "serve"]
