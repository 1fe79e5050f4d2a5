package notify

// Load reads the cursor, as Run does first.
var Load = (*Notifier).load
