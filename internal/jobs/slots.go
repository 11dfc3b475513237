package jobs

// slots counts what a worker may run at a time. A slot is free, in use, or
// promised to a pull that is under way. The consumer's lock guards it.
type slots struct {
	total    int
	used     int
	promised int
}

// free returns how many slots are neither used nor promised.
func (s *slots) free() int { return s.total - s.used - s.promised }

// take uses a free slot.
func (s *slots) take() bool {
	if s.free() <= 0 {
		return false
	}
	s.used++
	return true
}

// release frees a used slot.
func (s *slots) release() { s.used-- }

// promise sets n free slots aside for a pull.
func (s *slots) promise(n int) { s.promised += n }

// redeem turns a promised slot into a used one.
func (s *slots) redeem() { s.promised--; s.used++ }

// withdraw frees n promised slots.
func (s *slots) withdraw(n int) { s.promised -= n }
