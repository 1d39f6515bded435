# The one form in which results come from Python: typed parts, see forms.py. Vectors, tables and
# matrices become R's; an object becomes a list of its parts with the printed page, and the methods
# here serve the objects of all classes.

# Converts a part; other values stay as reticulate converted them.
from_python <- function(part) {
  type <- if (is.list(part)) part[["type"]]
  if (is.null(type)) {
    return(part)
  }
  value <- switch(
    type,
    table = new_frame(named_parts(part[["columns"]]), as.integer(part[["n"]])),
    list = named_parts(part[["parts"]]),
    matrix = new_matrix(part),
    counts = as.table(`storage.mode<-`(new_matrix(part), "integer")),
    value = part[["value"]],
    json = jsonlite::parse_json(part[["value"]]),
    object = new_object(part),
    ended = structure(
      list(
        value = with_running(
          from_python(part[["finished"]]),
          from_python(part[["running"]])
        ),
        line = part[["line"]]
      ),
      class = "ended"
    ),
    new_vector(part)
  )
  if (type == "object" || is.null(part[["attributes"]])) {
    return(value)
  }
  class <- c(part[["class"]], class(value))
  rlang::exec(structure, value, class = class, !!!named_parts(part[["attributes"]]))
}

named_parts <- function(parts) {
  names <- vapply(parts, \(part) part[["name"]] %||% "", "")
  values <- lapply(parts, from_python)
  if (any(nzchar(names)) || length(names) == 0) {
    rlang::set_names(values, names)
  } else {
    values
  }
}

new_vector <- function(part) {
  values <- part[["values"]]
  vector <- switch(
    part[["type"]],
    text = as_text(values),
    number = numbers_of(values),
    integer = as.integer(numbers_of(values)),
    flag = if (is.logical(values)) {
      values
    } else {
      vapply(as.list(values), \(value) value %||% NA, NA)
    },
    date = as.Date(as_text(values)),
    time = as.POSIXct(numbers_of(values), origin = "1970-01-01", tz = "UTC"),
    factor = {
      levels <- as_text(part[["levels"]])
      values <- as.integer(unlist(values))
      factor(
        levels[replace(values, values == 0, NA)],
        levels,
        ordered = isTRUE(part[["ordered"]])
      )
    }
  )
  if (is.null(part[["names"]])) {
    vector
  } else {
    rlang::set_names(vector, as_text(part[["names"]]))
  }
}

new_matrix <- function(part) {
  names <- lapply(part[c("rows", "columns")], \(names) {
    if (!is.numeric(names)) as_text(names)
  })
  n <- lapply(part[c("rows", "columns")], \(x) if (is.numeric(x)) x else length(x))
  values <- part[["values"]]
  numbers <- if (is.null(part[["size"]])) {
    numbers_of(values)
  } else {
    n_all <- n$rows * n$columns
    numbers_of(readBin(
      as.raw(values),
      "numeric",
      n_all,
      part[["size"]],
      endian = "little"
    ))
  }
  has_names <- !all(vapply(names, is.null, NA))
  dims <- if (length(part[["dims"]]) > 0) as_text(part[["dims"]])
  dimnames <- if (has_names) rlang::set_names(unname(names), dims)
  matrix(numbers, n$rows, n$columns, byrow = TRUE, dimnames = dimnames)
}

# Later calls send the JSON of an object back to Python, so that its elements cannot be changed.
new_object <- function(part) {
  last <- list(page = as_text(part[["page"]]))
  last$json <- part[["json"]]
  is_fixed <- isTRUE(part[["is_fixed"]])
  class <- c(part[["class"]], if (is_fixed) "llamaherd_fixed", "llamaherd_object")
  numbers <- as.list(from_python(part[["numbers"]]))
  structure(c(numbers, named_parts(part[["parts"]]), last), class = class)
}

# Tables of some classes print as the page in an attribute. Objects that an earlier version saved
# have their text in another element.
#' @export
format.llamaherd_object <- function(x, ...) {
  page <- attr(x, "page") %||% if (!is.data.frame(x)) x[["page"]] %||% x[["line"]]
  page <- page %||% utils::capture.output(utils::str(unclass(x), give.attr = FALSE))
  if (length(page) == 1) strsplit(page, "\n", fixed = TRUE)[[1]] else as.character(page)
}

#' @export
print.llamaherd_object <- function(x, ...) {
  if (is.data.frame(x) && is.null(attr(x, "page"))) {
    print(plain_frame(x), ...)
  } else {
    check_dots(rlang::enquos(...))
    show_page(format(x))
  }
  invisible(x)
}

#' @export
summary.llamaherd_object <- function(object, ...) object

#' @export
as.data.frame.llamaherd_object <- function(x, ...) {
  if (is.data.frame(x)) {
    return(plain_frame(x))
  }
  parts <- unclass(x)
  tables <- Filter(is.data.frame, parts)
  if (length(tables) > 0) {
    return(tables[[1]])
  }
  is_value <- vapply(parts, \(part) is.atomic(part) && length(part) == 1, NA)
  as.data.frame(parts[is_value & !names(parts) %in% c("page", "json")])
}

#' @exportS3Method tibble::as_tibble
as_tibble.llamaherd_object <- function(x, ...) tibble::as_tibble(as.data.frame(x), ...)

# Parts of tables whose page or attributes describe all rows are plain data frames.
subset_of_table <- function(x, ...) plain_frame(x)[...]

renamed_table <- function(x, value) stats::setNames(plain_frame(x), value)

rebuilt_table <- function(data, template) {
  if (is.data.frame(data)) plain_frame(data) else data
}
