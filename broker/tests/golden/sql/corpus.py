#!/usr/bin/env python3
"""Writes the input of Table.java: a line with the messages' properties, then an expression a line, as JSON strings."""
import json, random

random.seed(92)
MESSAGES = [
    {}, {"a": "1"}, {"a": "5"}, {"a": "x"}, {"a": "7", "TAGS": "TagA"}, {"a": "-3", "b": "2"}, {"a": "3.5", "b": "x"},
    {"a": "3000000000", "b": "3.5"}, {"a": "true"}, {"a": "TRUE", "b": "false"}, {"a": "it's", "b": "it"}, {"a": " 5 ", "b": "5"},
    {"a": "5", "b": "5", "c": "5"}, {"a": "NaN", "b": "Infinity"}, {"a": "5f", "b": "-0.0", "c": "0"}, {"a": "日本", "b": "日"},
    {"b": "1", "c": "abc", "TAGS": "TagB"}, {"c": "abcabc", "a": "abc"}, {"a": "+5", "b": "05"}, {"a": "9223372036854775807", "b": "-9223372036854775808"},
    {"a": "1e1", "b": ".5", "c": "5."}, {"a": "20", "b": "60", "c": "red"},
]
FIXED = r"""
a > 3|a IS NULL|a IS NOT NULL AND a BETWEEN 0 AND 6|TAGS = 'TagA'|TAGS in ('TagA','TagB') or a = 1|a = 'x'|a <> 1|a >>> 0|color = 'red' AND n > 10
a = 007|a = 0.0|a > 0x10|a = 5l|a = 5L|a = 0l|a=1-- no end|a=1 -- comment
|a=1 /* c * ** / */ and b = 2|a /* open|'abc|a = 'it''s'|a = ''|''|'|a = 'x' garbage # here|a # b|#|a = #|a = 1 #|a ! b|a != 1|a == 1
a = 1 AND|a = 1 OR|AND a|NOT|NOT a|NOT NOT a|NOT (a = 1)|a NOT|a NOT x|a NOT IN|a NOT IN (|a NOT IN ('1'|a IN ('1',|a IN ('1' '2')|a IN (1)|a IN ()|a IN 'x'|5 IN ('5')|(a) IN ('5')|(a=1) IN ('x')
a IS|a IS x|a IS NOT|a IS NOT x|a IS NOT NULL x|NULL IS NULL|NULL IS NOT NULL|TRUE IS NULL|5 IS NULL|NULL|TRUE|FALSE|NULL OR TRUE|NULL AND FALSE|NOT NULL|5|'x'|-5|-a|+a|+5|+|+ >|+(|+(a|+(a)|+(a > 'x')|+(a #|-(-(a > 1))
a = NULL|NULL = a|a <> NULL|a = TRUE|TRUE = a|a = FALSE|FALSE <> a|TRUE = 5|5 = TRUE|TRUE = TRUE|TRUE = FALSE|5 = 5|5 = '5'|'5' = 5|'x' = 5|5.5 = '5.5'|5 = 5.0|5 = 5000000000|(a > 1) = TRUE|TRUE = (a > 1)|(a > 1) = b|b = (a > 1)|(a > 1) = (b > 1)|(a > 1) IS NULL
a > 'x'|'x' > a|a > TRUE|a > NULL|NULL < a|(a > 1) > 2|a > (b > 1)|a > b|a >= b|a < b|a <= b|a = b|a <> b|a > -b|-a > 1|a > -5|a = -5|a > +5|a > 5.5|a > 5.|a > .5|a > 5e0|a > 5E+1|a > 1e400|a > 1e-400|a > 1.5e-3|a = 1.0E10
a BETWEEN 1 AND 5|a BETWEEN 5 AND 1|a BETWEEN 'a' AND 'b'|a BETWEEN 'b' AND 'a'|a BETWEEN 1 AND 'x'|a BETWEEN 1 AND '5'|a BETWEEN NULL AND 5|a BETWEEN 1 AND NULL|a BETWEEN TRUE AND 5|a BETWEEN 'x' AND TRUE|a BETWEEN TRUE AND 'x'|a BETWEEN FALSE AND TRUE|a BETWEEN b AND c|a BETWEEN 1.5 AND 5|a BETWEEN 5 AND 1.5|a BETWEEN 1 5|a BETWEEN 1|a BETWEEN AND|5 BETWEEN 1 AND 9|'x' BETWEEN 1 AND 9|a NOT BETWEEN 1 AND 5|a NOT BETWEEN 5 AND 1|a NOT BETWEEN 'x' AND 5|a NOT BETWEEN b AND c|a NOT BETWEEN 1 AND NULL|(a = 1) BETWEEN 1 AND 2|a BETWEEN -3 AND 3|a BETWEEN -3 AND -5|a BETWEEN (1) AND (5)
a CONTAINS 'b'|a CONTAINS ''|a CONTAINS b|a CONTAINS 5|a NOT CONTAINS 'b'|a NOT CONTAINS ''|c STARTSWITH 'abc'|c NOT STARTSWITH 'abc'|c ENDSWITH 'bc'|c NOT ENDSWITH 'bc'|a CONTAINS '日'|a STARTSWITH '日'|5 CONTAINS '5'|'555' CONTAINS '5'|(a=1) CONTAINS 'x'|NULL CONTAINS 'x'|c CONTAINS|c NOT CONTAINS|NOT c CONTAINS 'b'|c CONTAINS 'b' CONTAINS 'b'
a = 99999999999999999999|a = 9223372036854775807|a = 9223372036854775808|a = -9223372036854775808|a = 2147483648|a > 2147483647
a = 1 AND b = 2|a = 1 AND b|a AND b|a OR b|5 AND a|a AND 5|'x' OR a|a AND|a = 1 AND b = 2 OR c = 3|a = 1 OR b = 2 AND c = 3|(a = 1 OR b = 2) AND c = 3|a > 1 OR b > 1|b > 1 OR a > 1|a > 1 AND b > 1|NOT a > 1|NOT (a > 1)|NOT a = 1|a = 1 = TRUE|a = b = c|a <> b <> c|a > 1 > 2|a IS NULL IS NULL|a IS NULL = TRUE
(a = 1|a = 1)|((a = 1))|()|(|)|a =|= a|a|A|_x$1 = 1|1a = 1|a.b = 1|"a" = 1|a = "x"|%|é = 1|a = 'é'|a = é|a = 1;|a;|.|a = .|a = . |/|a = / 5|a = 5 / 2|a * 2 = 4|a + 2 = 4|a - 2 = 4|(a - 2) = 4|a LIKE 'x%'|a = 1 COMMENT
a	> 	#|	a = '	' #|a 
 > 
 #|a = 1 and
>|'unterminated
text|--|-- x|--x
|  |	|a>1and b>2|a>1AND(b>2)|a in('1','5')|a iN ('1') aNd b Is NuLl|a between 1 and 5 and b between 1 and 5|a not in ('1','2','3','4','5','6')|a in ('6','5','4','3','2','1','5')|(a in ('6','5')) > 3|-(a in ('6')) = 1|(a CONTAINS 'x') > 5|(a BETWEEN 1 AND 2) > 3|(a NOT BETWEEN 1 AND 2) > 3|(NOT a) > 3|(a IS NOT NULL) < 1|(a = 1 AND b = 2 OR c IS NULL) > 5|(a <> 'it''s') > 5|1.5|1e10|1.0E-5 AND a|123456789.125 OR a|-1e7 OR a|12345678901 OR a|😀 = 1|a = 😀|a = '😀' AND >|a😀|a = 1 AND 😀 |+ + a|+ - + a > 1|- - a = 1|- - 5 = a|+NOT a|NOT + a|+ + >|+ a >|a > + + 5|a IN ('x') = TRUE|a IN ('x') IS NULL|a NOT IN ('x') OR a IS NULL
""".strip("\n")
exprs = []
for line in FIXED.replace("\n \n", "\n").split("|"):
    exprs.append(line)
for block in FIXED.split("|"):
    exprs.extend(part for part in block.split("\n"))

def pick(*options):
    return random.choice(options)

def constant():
    return pick("1", "5", "-3", "3.5", "0", "20", "5L", "3000000000", "'x'", "'5'", "'abc'", "''", "TRUE", "FALSE", "NULL", "'3.5'", "1e1", "'it''s'", "9223372036854775807", ".5", "05")

def number():
    return pick("1", "5", "-3", "3.5", "0", "20", "a", "b", "c", "-a", "3000000000", "+5", ".5", "1e1")

def operand(depth):
    kind = random.random()
    if kind < 0.55:
        return pick("a", "b", "c", "TAGS", "d")
    if kind < 0.85:
        return constant()
    if kind < 0.93 or depth <= 0:
        return pick("-", "+", "- ", "NOT ") + pick("a", "b", "5", "(a)", "TRUE")
    return "(" + expression(depth - 1) + ")"

def text():
    return pick("'1'", "'x'", "'abc'", "'b'", "''", "'it'", "'TagA'", "'5'", "'日'")

def predicate(depth):
    kind = random.randrange(12)
    left = operand(depth) if random.random() < 0.3 else pick("a", "b", "c", "TAGS")
    if kind < 4:
        return f"{left} {pick('=', '<>', '=', '<', '<=', '>', '>=')} {operand(depth)}"
    if kind < 6:
        return f"{pick('a', 'b', 'c')} {pick('<', '<=', '>', '>=', '=', '<>')} {number()}"
    if kind == 6:
        return f"{left} {pick('', 'NOT ')}BETWEEN {number()} AND {number()}"
    if kind == 7:
        return f"{left} {pick('', 'NOT ')}IN ({', '.join(text() for _ in range(random.randint(1, 7)))})"
    if kind == 8:
        return f"{left} IS {pick('', 'NOT ')}NULL"
    if kind == 9:
        return f"{left} {pick('', 'NOT ')}{pick('CONTAINS', 'STARTSWITH', 'ENDSWITH')} {text()}"
    if kind == 10:
        return left
    return f"NOT {operand(depth)}" if depth <= 0 else f"NOT ({expression(depth - 1)})"

def expression(depth):
    out = predicate(depth)
    for _ in range(pick(0, 0, 1, 1, 2)):
        out += f" {pick('AND', 'OR')} {predicate(depth)}"
    return f"({out})" if random.random() < 0.15 else out

for _ in range(3000):
    exprs.append(expression(2))
PIECES = ["NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH", "1", "5.5", "'x'", "a", "=", "<>", ">", ">=", "<", "<=", "(", ",", ")", "+", "-", "#", "'", "/*", "*/", "--", "\n", "\t", "\r", "é", "."]
for _ in range(1500):
    tokens = expression(1).split(" ")
    for _ in range(random.randint(1, 2)):
        at = random.randrange(len(tokens) + 1)
        change = random.randrange(3)
        if change == 0:
            tokens.insert(at, random.choice(PIECES))
        elif tokens and at < len(tokens):
            if change == 1:
                tokens.pop(at)
            else:
                tokens[at] = random.choice(PIECES)
    exprs.append(" ".join(tokens))
for _ in range(1000):
    exprs.append(pick(" ", "").join(random.choice(PIECES) for _ in range(random.randint(1, 8))))
print(json.dumps(MESSAGES))
seen = set()
for sql in exprs:
    if sql not in seen:
        seen.add(sql)
        print(json.dumps(sql))
