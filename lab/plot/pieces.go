package plot

import (
	"html"
	"regexp"
)

// figurePiece is one of the pieces that figure.svg makes.
var figurePiece = regexp.MustCompile(`(?s)<svg class="(\w+)"(?: aria-label="([^"]*)")? x="[^"]*" y="[^"]*"(.*?</svg>)`)

// svgPiece is a picture by itself.
type svgPiece struct {
	Class string
	Label string // of a sign of the legend: its name
	Text  string
}

// FigurePieces takes a figure apart. Another picture has no pieces.
func FigurePieces(text string) (pieces []svgPiece) {
	for _, m := range figurePiece.FindAllStringSubmatch(text, -1) {
		pieces = append(pieces, svgPiece{m[1], html.UnescapeString(m[2]), "<svg" + m[3]})
	}
	return pieces
}
