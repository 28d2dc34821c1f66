package monitoring

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// source is a data source as Grafana names it.
type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// dashboard is one of Grafana's, as far as it is looked at here.
type dashboard struct {
	ID         any      `json:"id"`
	UID        string   `json:"uid"`
	Title      string   `json:"title"`
	Tags       []string `json:"tags"`
	Templating struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type variable struct {
	Name       string  `json:"name"`
	Type       string  `json:"type"`
	Datasource *source `json:"datasource"`
	Definition string  `json:"definition"`
}

type panel struct {
	ID          int     `json:"id"`
	Type        string  `json:"type"`
	Title       string  `json:"title"`
	Description string  `json:"description"`
	Datasource  *source `json:"datasource"`
	GridPos     struct {
		H, W, X, Y int
	} `json:"gridPos"`
	Targets []struct {
		RefID        string  `json:"refId"`
		Expr         string  `json:"expr"`
		LegendFormat string  `json:"legendFormat"`
		Datasource   *source `json:"datasource"`
	} `json:"targets"`
}

// dashboards reads all dashboards, by file.
func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "monitoring/dashboards/*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no dashboards: %v", err)
	}
	all := map[string]dashboard{}
	for _, file := range files {
		var d dashboard
		if err := yaml.Unmarshal([]byte(readFile(t, "monitoring/dashboards/"+filepath.Base(file))), &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = d
	}
	return all
}

// filled puts values in the places of Grafana's variables.
var filled = strings.NewReplacer("$__rate_interval", "5m", "$cluster", ".*", "$namespace", ".*", "$job", "drover-metrics")

// dashboardExpressions returns the expressions of all panels.
func dashboardExpressions(t *testing.T) []expression {
	t.Helper()
	var all []expression
	for file, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				all = append(all, expression{file + ", " + p.Title + ", " + target.RefID, filled.Replace(target.Expr)})
			}
		}
	}
	return all
}

func TestDashboards_Importable(t *testing.T) {
	titles := map[string]bool{}
	for file, d := range dashboards(t) {
		if d.ID != nil || d.UID != "drover-"+strings.TrimSuffix(file, ".json") || !slices.Contains(d.Tags, "drover") || titles[d.Title] {
			t.Errorf("%s: id %v, uid %s, tags %v, title %q", file, d.ID, d.UID, d.Tags, d.Title)
		}
		titles[d.Title] = true
		var names []string
		for _, v := range d.Templating.List {
			names = append(names, v.Name)
			checkVariable(t, file, v)
		}
		if want := []string{"datasource", "cluster", "namespace", "job"}; !slices.Equal(names, want) {
			t.Errorf("%s has the variables %v, want %v", file, names, want)
		}
		ids := map[int]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] {
				t.Errorf("%s: two panels have the id %d", file, p.ID)
			}
			ids[p.ID] = true
			if p.Type != "row" {
				checkPanel(t, file, p)
			}
		}
		checkPlaces(t, file, d.Panels)
	}
}

// chosen is the data source that the user picks in the dashboard.
var chosen = source{Type: "prometheus", UID: "${datasource}"}

func checkVariable(t *testing.T, file string, v variable) {
	t.Helper()
	if v.Type == "datasource" {
		return
	}
	if v.Datasource == nil || *v.Datasource != chosen {
		t.Errorf("%s: the variable %s asks %v", file, v.Name, v.Datasource)
	}
	query := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(v.Definition)
	if query == nil || query[2] != v.Name {
		t.Errorf("%s: the variable %s is %s", file, v.Name, v.Definition)
		return
	}
	if output, err := promtool(t, "--experimental", "promql", "format", filled.Replace(query[1])); err != nil {
		t.Errorf("%s: the variable %s: %v\n%s", file, v.Name, err, output)
	}
}

var legend = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

func checkPanel(t *testing.T, file string, p panel) {
	t.Helper()
	if p.Title == "" || len(p.Targets) == 0 || p.Datasource == nil || *p.Datasource != chosen {
		t.Errorf("%s, %q: %d expressions of %v", file, p.Title, len(p.Targets), p.Datasource)
	}
	refs := map[string]bool{}
	for _, target := range p.Targets {
		if target.Datasource == nil || *target.Datasource != chosen || refs[target.RefID] {
			t.Errorf("%s, %s, %s: asks %v, or the letter stands twice", file, p.Title, target.RefID, target.Datasource)
		}
		refs[target.RefID] = true
		for _, part := range []string{`cluster=~"$cluster"`} {
			if !strings.Contains(target.Expr, part) {
				t.Errorf("%s, %s, %s: %s has no %s", file, p.Title, target.RefID, target.Expr, part)
			}
		}
		kept := slices.Concat(append(groupings(target.Expr), []string{})...)
		for _, match := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
			if len(kept) > 0 && !slices.Contains(kept, match[1]) {
				t.Errorf("%s, %s: the legend shows %s; what is left is %v", file, p.Title, match[1], kept)
			}
		}
	}
}

// checkPlaces fails when a panel is wider than the page, or lies on another.
func checkPlaces(t *testing.T, file string, panels []panel) {
	t.Helper()
	for i, a := range panels {
		if a.GridPos.X+a.GridPos.W > 24 || a.GridPos.W == 0 || a.GridPos.H == 0 {
			t.Errorf("%s, %s: at %+v", file, a.Title, a.GridPos)
		}
		for _, b := range panels[:i] {
			apart := a.GridPos.X >= b.GridPos.X+b.GridPos.W || b.GridPos.X >= a.GridPos.X+a.GridPos.W ||
				a.GridPos.Y >= b.GridPos.Y+b.GridPos.H || b.GridPos.Y >= a.GridPos.Y+a.GridPos.H
			if !apart {
				t.Errorf("%s: %q and %q lie on each other", file, a.Title, b.Title)
			}
		}
	}
}
