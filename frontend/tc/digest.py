"""SHA-256. The module hashlib would load OpenSSL, which takes 3 MB of every process."""

try:
    from _sha2 import sha256
except ImportError:
    try:
        from _sha256 import sha256  # before Python 3.12
    except ImportError:
        from hashlib import sha256

__all__ = ["sha256"]
