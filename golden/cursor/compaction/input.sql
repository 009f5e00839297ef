CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
INSERT INTO cursorDiskKV VALUES ('composerData:c-long', '{"composerId": "c-long", "createdAt": 1767225600000, "lastUpdatedAt": 1767225660000, "fullConversationHeadersOnly": [{"bubbleId": "b1", "type": 1}, {"bubbleId": "b2", "type": 2}, {"bubbleId": "b3", "type": 1}, {"bubbleId": "b4", "type": 2}], "name": "Long", "latestConversationSummary": {"summary": {"summary": "The first thing is done."}}}');
INSERT INTO cursorDiskKV VALUES ('bubbleId:c-long:b1', '{"bubbleId": "b1", "type": 1, "text": "First"}');
INSERT INTO cursorDiskKV VALUES ('bubbleId:c-long:b2', '{"bubbleId": "b2", "type": 2, "text": "Done"}');
INSERT INTO cursorDiskKV VALUES ('bubbleId:c-long:b3', '{"bubbleId": "b3", "type": 1, "text": "Second"}');
INSERT INTO cursorDiskKV VALUES ('bubbleId:c-long:b4', '{"bubbleId": "b4", "type": 2, "text": "Done too"}');
