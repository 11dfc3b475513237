package events

// AskAt makes l send its direct gets to another subject than the server's, where a
// test stands in for a replica.
func (l *Log) AskAt(api string) { l.get.api = api }

// Pace is the time between two messages of an output.
const Pace = pace
