"""Reading runs: finding them, following them while they grow, and answering questions about them."""
