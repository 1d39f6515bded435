columns_of <- function(text, schema, dotted = FALSE) {
  skip_if_no_llamaherd()
  json <- check_schema(schema, "schema", 1L)
  text_columns(text, schema_columns(json), dotted)
}

review <- type_object(
  sentiment = type_enum(c("good", "bad")),
  stars = type_integer(required = FALSE),
  score = type_number(),
  sure = type_boolean(),
  name = type_string(),
  topics = type_array(type_enum(c("u", "v"))),
  author = type_object(name = type_string(), at = type_object(x = type_number())),
  people = type_array(type_object(k = type_boolean(), n = type_array(type_integer())))
)
answer <- paste0(
  '{"sentiment":"bad","stars":3,"score":1,"sure":true,"name":"NA","topics":["v","u"],',
  '"author":{"name":"A","at":{"x":2.5}},"people":[{"k":true,"n":[1,2]},{"k":false,"n":[]}]}'
)

test_that("each field is a column of its type", {
  text <- c(answer, NA, sub('"stars":3,', "", answer))
  frame <- columns_of(text, review)
  expect_s3_class(frame, "data.frame", exact = TRUE)
  sentiment <- factor(c("bad", NA, "bad"), levels = c("good", "bad"))
  expect_identical(frame$sentiment, sentiment)
  expect_identical(frame$stars, c(3L, NA, NA))
  expect_identical(frame$score, c(1, NA, 1))
  expect_identical(frame$sure, c(TRUE, NA, TRUE))
  expect_identical(frame$name, c("NA", NA, "NA"))
  topics <- factor(c("v", "u"), levels = c("u", "v"))
  expect_identical(frame$topics, list(topics, NULL, topics))
  expect_s3_class(frame$author, "data.frame")
  expect_identical(frame$author$name, c("A", NA, "A"))
  expect_identical(frame$author$at$x, c(2.5, NA, 2.5))
  person <- frame$people[[1]]
  expect_identical(person$k, c(TRUE, FALSE))
  expect_identical(person$n, list(1:2, integer()))
  expect_null(frame$people[[2]])
})

test_that("types do not depend on the rows", {
  kinds <- \(frame) rapply(unclass(frame), typeof, how = "unlist")
  whole <- columns_of(c(answer, answer), review)
  for (text in list(character(), NA_character_, c(NA, answer))) {
    frame <- columns_of(text, review)
    expect_identical(names(frame), names(whole))
    expect_identical(nrow(frame), length(text))
    for (name in c("sentiment", "stars", "score", "sure", "name", "topics", "people")) {
      expect_identical(typeof(frame[[name]]), typeof(whole[[name]]))
      expect_identical(levels(frame[[name]]), levels(whole[[name]]))
    }
    expect_identical(lapply(frame$author, typeof), lapply(whole$author, typeof))
    expect_identical(nrow(frame$author), length(text))
  }
  none <- columns_of('{"people":[],"topics":[]}', review)
  expect_identical(lapply(none$people[[1]], typeof), lapply(whole$people[[1]], typeof))
  expect_identical(none$topics[[1]], factor(character(), levels = c("u", "v")))
})

test_that("nested objects may be columns with dotted names", {
  frame <- columns_of(c(answer, NA), review, dotted = TRUE)
  expect_identical(frame$author.name, c("A", NA))
  expect_identical(frame$author.at.x, c(2.5, NA))
  expect_identical(match("author.name", names(frame)), 7L)
  clash <- type_object(`a.b` = type_string(), a = type_object(b = type_string()))
  frame <- columns_of('{"a.b":"1","a":{"b":"2"}}', clash, dotted = TRUE)
  expect_identical(frame, data.frame(a.b = "1", a.b.1 = "2"))
  inner <- type_object(x = type_array(type_object(y = type_object(z = type_number()))))
  frame <- columns_of('{"x":[{"y":{"z":1}}]}', inner, dotted = TRUE)
  expect_identical(frame$x[[1]], data.frame(y.z = 1))
})

test_that("what is no object is a column value", {
  expect_identical(columns_of(c("1", NA), type_integer()), data.frame(value = c(1L, NA)))
  frame <- columns_of('[{"a":1},{"a":2}]', type_array(type_object(a = type_number())))
  expect_identical(frame$value, list(data.frame(a = c(1, 2))))
})

test_that("columns follow what Python reads in a schema", {
  one <- function(schema, text) {
    schema <- sprintf('{"type":"object","properties":{"x":%s}}', schema)
    columns_of(sprintf('{"x":%s}', text), schema)$x
  }
  expect_identical(one('{"type":["string","null"]}', c("null", '"a"')), c(NA, "a"))
  expect_identical(one('{"type":["integer","number"]}', c("1", "2.5")), c(1, 2.5))
  expect_identical(one('{"enum":["a",null]}', c("null", '"a"')), factor(c(NA, "a")))
  expect_identical(one('{"enum":[true]}', "true"), TRUE)
  expect_identical(one('{"const":null}', "null"), NA)
  expect_identical(one('{"enum":[1,"a"]}', c("1", '"a"')), list(1L, "a"))
  expect_identical(one("true", '{"a":[1,null]}'), list(list(a = list(1L, NULL))))
  lists <- '{"type":"array","items":{"type":"array","items":{"type":"number"}}}'
  expect_identical(one(lists, "[[1],[2,3]]"), list(list(1, c(2, 3))))
  parts <- '{"allOf":[{"properties":{"a":{"type":"string"}}},
    {"properties":{"b":{"type":"number"}}}]}'
  expect_identical(one(parts, '{"a":"A","b":1}'), data.frame(a = "A", b = 1))
})

test_that("schemas that differ by prompt have their columns together", {
  skip_if_no_llamaherd()
  schemas <- list(
    type_object(a = type_enum("x"), b = type_integer()),
    type_object(a = type_enum("y"), b = type_number(), c = type_string())
  )
  json <- check_schema(schemas, "schema", 2L)
  texts <- c('{"a":"x","b":1}', '{"a":"y","b":2,"c":"z"}')
  frame <- text_columns(texts, schema_columns(json))
  expected <- data.frame(a = factor(c("x", "y")), b = c(1, 2), c = c(NA, "z"))
  expect_identical(frame, expected)
})

test_that("values that R has not are kept as far as they go", {
  expect_identical(columns_of(c("3000000000", "1"), type_integer())$value, c(3e9, 1))
  value <- \(...) columns_of(...)$value
  expect_identical(value('"a\\u0000b\\\\u0000"', type_string()), "a\ufffdb\\u0000")
  wide <- type_object(NULL, !!"gr\u00f6\u00dfe" := type_string())
  columns <- columns_of('{"gr\u00f6\u00dfe":"\U1F600"}', wide)
  expect_identical(columns, stats::setNames(data.frame("\U1F600"), "gr\u00f6\u00dfe"))
  odd <- '{"properties":{"":{"type":"string"},"b c":true}}'
  odd <- columns_of('{"":"a","b c":1}', odd)
  expect_identical(unclass(odd)[[1]], "a")
  expect_named(odd, c("", "b c"))
  # Values of wrong types. Python's check does not accept such values.
  expect_identical(value(c('"a"', "[]", "{}"), type_number()), rep(NA_real_, 3))
  columns <- columns_of("1", type_object(a = type_string()))
  expect_identical(columns, data.frame(a = NA_character_))
})

test_that("what is not valid JSON spoils no other row", {
  schema <- type_object(a = type_integer())
  columns <- columns_of(c('{"a":1}', '{"a":', "x]", '{"a":2}'), schema)
  expect_identical(columns$a, c(1L, NA, NA, 2L))
})

test_that("deep schemas end soon", {
  deep <- paste0(strrep('{"properties":{"a":', 160), "true", strrep("}}", 160))
  expect_named(columns_of("{}", deep), "a")
})

test_that("whole numbers that R cannot hold are texts, digit by digit", {
  skip_if_no_llamaherd()
  texts <- c("1171123932307103233", "5", "-9223372036854775808", NA)
  one <- function(schema, values) {
    json <- ifelse(is.na(values), NA, sprintf("{\"x\":%s}", values))
    schema <- sprintf("{\"type\":\"object\",\"properties\":{\"x\":%s}}", schema)
    text_columns(json, schema_columns(schema))$x
  }
  expect_identical(one('{"type":"integer"}', texts), texts)
  expect_identical(one('{"anyOf":[{"type":"integer"},{"type":"null"}]}', texts), texts)
  expect_identical(one('{"type":"integer"}', "9007199254740991"), 9007199254740991)
  numbers <- one('{"type":"number"}', c(texts[[1]], "0.5"))
  expect_identical(numbers, c(1171123932307103233, 0.5))
  digits <- "12345678901234567890"
  expect_identical(one('{"type":"string"}', sprintf('"%s"', digits)), digits)
  integers <- '{"type":"array","items":{"type":"integer"}}'
  parsed <- one(integers, sprintf("[%s,1]", texts[[1]]))
  expect_identical(parsed, list(c(texts[[1]], "1")))
})
