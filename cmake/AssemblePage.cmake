# Puts the bundled style and script into the page. The build runs it with -DSOURCE= -DBUNDLE= -DPAGE=
file(READ ${SOURCE} page)
file(READ ${BUNDLE}/page.css style)
file(READ ${BUNDLE}/page.js script)
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
file(WRITE ${PAGE} "${page}")
