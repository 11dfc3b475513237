package point

// At is one boundary: an effect of one room, such as "create" of "e2b".
type At struct{ Room, Effect string }

// Of names a boundary.
func Of(room, effect string) At { return At{room, effect} }

// String is the point's name in rules and in the log.
func (a At) String() string { return a.Room + "." + a.Effect }
