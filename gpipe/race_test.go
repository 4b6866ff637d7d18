//go:build race

package gpipe

func init() { underRace = true }
