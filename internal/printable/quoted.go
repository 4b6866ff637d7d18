package printable

import "strconv"

// Quoted returns a text from a file in quotes, without control characters, and
// shortened if it is long.
func Quoted(s string) string {
	const most = 60
	if cut := []rune(s); len(cut) > most {
		return strconv.Quote(string(cut[:most])) + "..."
	}
	return strconv.Quote(s)
}
