# SPDX-License-Identifier: Apache-2.0
"""For `make site`: what makes the site whole without a network. Files outside of docs/ that its pages link to come
along, and the search needs no script from elsewhere. mkdocs.yml names this module among its hooks."""
import posixpath
import re
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
WORKER = "assets/javascripts/frame_worker.js"
PICTURE = re.compile(r"<!-- picture: (.+): (\S+) -->")  # of a file that tools/make_gallery.sh makes
LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]+)([)#])")


def outside(page, link):
    """The path below the root that a link of a page leads to; None: it stays in docs/."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return None if path.startswith("docs/") else path


def target(path):
    """Where the site has it: as text, which a browser shows; folders as a list of their files."""
    if (ROOT / path).is_dir():
        return f"source/{path}/index.html"
    return f"source/{path}" if path.endswith(".txt") else f"source/{path}.txt"


def on_files(files, config):
    files.append(File.generated(config, WORKER, content=(ROOT / "tools/site/frame_worker.js").read_bytes()))
    wanted = set()
    for file in files.documentation_pages():
        for _, link, _ in LINK.findall(file.content_string):
            path = outside(file.src_uri, link)
            if path and not (ROOT / path).exists():
                raise PluginError(f"docs/{file.src_uri} links to {link}, which is not there")
            wanted |= {path} if path else set()
    for path in sorted(wanted):
        inside = sorted((ROOT / path).iterdir()) if (ROOT / path).is_dir() else [ROOT / path]
        for one in inside:
            name = one.relative_to(ROOT).as_posix()
            files.append(File.generated(config, target(name), content=one.read_bytes()))
        if (ROOT / path).is_dir():
            links = "".join(f'<li><a href="{one.name}.txt">{one.name}</a></li>' for one in inside)
            page = f'<!doctype html><html lang="en"><title>{path}</title><h1>{path}</h1><ul>{links}</ul></html>'
            files.append(File.generated(config, target(path), content=page))
    return files


def on_page_markdown(markdown, page, **_):
    def moved(match):
        path = outside(page.file.src_uri, match[2])
        return f"{match[1]}{'../' * page.file.src_uri.count('/')}{target(path)}{match[3]}" if path else match[0]
    def made(match):
        there = (ROOT / "docs" / page.file.src_uri).parent / match[2]
        return f"![{match[1]}]({match[2]})" if there.is_file() else ""
    return LINK.sub(moved, PICTURE.sub(made, markdown))


def on_post_page(output, page, **_):
    """The theme has its search fetch a script, where pages are read from a folder."""
    return re.sub(r'"https://[^"]*/iframe-worker/shim"', f'"{"../" * page.file.src_uri.count("/")}{WORKER}"', output)


def on_post_template(output, template_name, **_):
    return re.sub(r'"https://[^"]*/iframe-worker/shim"', f'"{WORKER}"', output) if template_name == "404.html" else output
