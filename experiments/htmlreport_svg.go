package experiments

import (
	"html/template"
	"regexp"
	"strings"
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

// themed are the colours of plots that are others on a dark page; the page's
// style sheet says which.
var themed = map[string]string{
	"FFFFFF": "none", // the ground is the page's
	"000000": "var(--ink)",
	"808080": "var(--grid)",
	"DDEEF8": "var(--band)",
	"0072B2": "var(--blue)",
}

// inlineSVG makes a picture's text part of a page: without what comes before the
// element, its ids and rules its own, its colours the page's where they would
// not show on dark ground. Scope names the element's class, unique in the page.
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
		if other, ok := themed[hex]; ok {
			return property + ":" + other
		}
		return color
	})
	return template.HTML(text)
}
