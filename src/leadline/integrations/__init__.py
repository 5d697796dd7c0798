"""Callbacks for trainers of other libraries, in their own conventions; each module imports only its own library."""
