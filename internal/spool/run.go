package spool

const (
	exitNotBegun = 3
	exitVanished = 4
)
