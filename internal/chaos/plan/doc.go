// Package plan says what a campaign publishes and what it breaks. Both are pure
// functions of the seed and the sizes: the same arguments give the same plan, so
// that a campaign that found something can be run again.
package plan
