package page

import (
	"fmt"
	"html/template"
	"math"
	"regexp"
	"strconv"
	"strings"

	"gpipebench/lab/plot"
)

var (
	svgProlog   = regexp.MustCompile(`(?s)^.*?<svg`)
	svgComment  = regexp.MustCompile(`(?s)<!--.*?-->`)
	svgStyle    = regexp.MustCompile(`(?s)<style>\n?(.*?)</style>`)
	svgRule     = regexp.MustCompile(`(?m)^([^@{}\n][^{}\n]*)\{`)
	svgHexColor = regexp.MustCompile(`(fill|stroke):#([0-9A-F]{6})`)
	notClass    = regexp.MustCompile(`[^\w-]`)
	svgID       = regexp.MustCompile(`( id="|url\(#)([A-Za-z][\w-]*)`)
)

var (
	svgGround = regexp.MustCompile(`(?m)^<path d="[^"]*" style="fill:#FFFFFF" />\n`)
	svgPath   = regexp.MustCompile(` d="[^"]*"`)
	svgNumber = regexp.MustCompile(`[0-9]+\.[0-9]{2,}`)
)

// shorter is a piece of a figure without what the page's style sheet says of all: the ground, the
// font, the direction of letters and that lines are not filled. Places are tenths of a point.
func shorter(piece string) string {
	piece = svgGround.ReplaceAllString(piece, "")
	piece = svgPath.ReplaceAllStringFunc(piece, func(d string) string {
		return svgNumber.ReplaceAllStringFunc(d, func(number string) string {
			x, err := strconv.ParseFloat(number, 64)
			if err != nil {
				panic(err) // the expression has found it
			}
			return strconv.FormatFloat(math.Round(10*x)/10, 'f', -1, 64)
		})
	})
	return strings.NewReplacer(
		"font-family:'Liberation Sans',Arial,Helvetica,sans-serif;", "", ` transform="scale(1, -1)"`, "", `style="fill:none;stroke`, `style="stroke`,
	).Replace(piece)
}

// themed are the colours of plots that differ on a dark page; the page's style sheet
// has them.
var themed = map[string]string{
	"FFFFFF": "none", // the ground is the page's
	"000000": "var(--ink)",
	"222222": "var(--ink)",
	"808080": "var(--grid)",
	"DDEEF8": "var(--band)",
	"CCCCCC": "var(--range)",
	"0072B2": "var(--blue)",
	"999999": "var(--pale)",
	"555555": "var(--strong)",
}

// voiceStyles gives the heads of columns the colours that plots have for the same
// voice.
func voiceStyles() template.CSS {
	var b strings.Builder
	for _, v := range plot.Voices {
		if !strings.Contains(v.Prefix, " ") {
			r, g, blue, _ := v.Inks[0].RGBA()
			fmt.Fprintf(&b, "th.%s { border-bottom-color: %s }\n", v.Prefix, pageColor(fmt.Sprintf("%02X%02X%02X", r>>8, g>>8, blue>>8)))
		}
	}
	return template.CSS(b.String())
}

// pageColor returns the page's name of a colour of six hexadecimal digits.
func pageColor(hex string) string {
	if other, ok := themed[hex]; ok {
		return other
	}
	return "#" + hex
}

// inlineSVG returns a picture as part of a page: without what comes before the element,
// with ids and rules of its own, and with the page's colours where others would not
// show on dark ground. Scope is the element's class, unique in the page.
func inlineSVG(text, scope string) template.HTML {
	scope = notClass.ReplaceAllString(scope, "-")
	text = svgComment.ReplaceAllString(text, "")
	text = svgProlog.ReplaceAllString(text, `<svg class="`+scope+`"`)
	text = svgStyle.ReplaceAllStringFunc(text, func(style string) string {
		rules := svgStyle.FindStringSubmatch(style)[1]
		rules = svgRule.ReplaceAllStringFunc(rules, func(rule string) string {
			selectors := strings.Split(strings.TrimSuffix(rule, "{"), ",")
			for i, s := range selectors {
				selectors[i] = "." + scope + " " + strings.TrimSpace(s)
			}
			return strings.Join(selectors, ", ") + " {"
		})
		rules = strings.ReplaceAll(rules, "@media (prefers-color-scheme", "@media screen and (prefers-color-scheme")
		return "<style>\n" + rules + "</style>"
	})
	text = svgID.ReplaceAllString(text, "${1}"+scope+"-${2}")
	text = svgHexColor.ReplaceAllStringFunc(text, func(color string) string {
		property, hex, _ := strings.Cut(color, ":#")
		return property + ":" + pageColor(hex)
	})
	return template.HTML(text)
}
