"""Questions about plans: what if, at what price, how robust, where beaten."""
