//go:build !unix

package main

import "os"

func widthOf(*os.File) int { return 0 }
