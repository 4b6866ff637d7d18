package plot

import (
	"html"
	"regexp"
	"strconv"
)

// figurePiece is one of the pieces that figure.svg makes.
var figurePiece = regexp.MustCompile(`(?s)<svg class="(\w+)"(?: aria-label="([^"]*)")? x="[^"]*" y="[^"]*"( width="([0-9.]+)".*?</svg>)`)

// svgPiece is a picture by itself.
type svgPiece struct {
	Class string
	Label string // of a line of the heading: the line; of a sign of the legend: its name
	Wide  bool   // a panel that needs more room than others
	Text  string
}

// FigurePieces takes a figure apart. Another picture has no pieces.
func FigurePieces(text string) (pieces []svgPiece) {
	for _, m := range figurePiece.FindAllStringSubmatch(text, -1) {
		width, _ := strconv.ParseFloat(m[4], 64)
		wide := m[1] == "panel" && width > onePanel.Points()+1
		pieces = append(pieces, svgPiece{m[1], html.UnescapeString(m[2]), wide, "<svg" + m[3]})
	}
	return pieces
}
