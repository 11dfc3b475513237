package schemas

// number reads a whole number of up to 19 digits. At a fraction or an exponent
// it stops, and whoever comes next is not sure.
func (l *look) number(p *plan) bool {
	negative := l.doc[l.at] == '-'
	if negative {
		l.at++
	}
	magnitude, ok := l.digits()
	if !ok {
		return false
	}
	return p.takes(typeInteger) && p.within(negative, magnitude)
}

// digits reads an integer without a sign. Leading zeros are no JSON.
func (l *look) digits() (n uint64, ok bool) {
	start := l.at
	for ; l.at < len(l.doc) && '0' <= l.doc[l.at] && l.doc[l.at] <= '9'; l.at++ {
		n = n*10 + uint64(l.doc[l.at]-'0')
	}
	count := l.at - start
	return n, count == 1 || 0 < count && count <= 19 && l.doc[start] != '0'
}

func (p *plan) within(negative bool, magnitude uint64) bool {
	if negative {
		if magnitude == 0 || magnitude > 1<<62 { // -0 is none for Go's unsigned
			return false
		}
		return p.min == nil || -int64(magnitude) >= *p.min
	}
	if p.min != nil && *p.min > 0 && magnitude < uint64(*p.min) {
		return false
	}
	return p.max == nil || magnitude <= *p.max
}
