package plain

import "strconv"

// Quoted is a text of a file in quotes, without control characters, and cut where
// it is long.
func Quoted(s string) string {
	const most = 60
	if cut := []rune(s); len(cut) > most {
		return strconv.Quote(string(cut[:most])) + "..."
	}
	return strconv.Quote(s)
}
